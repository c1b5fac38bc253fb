"""Ids and text: tokenizers, chat rendering, token formats, segmentation, display pieces. Pure: nothing here touches the database or the network."""
